"""Stack drivers: how the processes of the product under test are booted, watched and stopped."""
