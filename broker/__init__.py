"""What passes between the processes of the farm, and nothing else."""
