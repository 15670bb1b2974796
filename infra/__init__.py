"""What the farm stands on: embedded services, the reference stack, migrations, and the command bv3-farm."""
