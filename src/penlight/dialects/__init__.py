"""What a graph may contain at each stage: ATen as exported, Core ATen, Edge."""
