output "configuration" {
  description = "The configuration of the shard, as it is in the bucket."
  value       = jsonencode(local.configuration)
}

output "leader_ip" {
  description = "Address of whoever leads: ports 8992 for registration, 8993 for operators, 8994 for agents."
  value       = var.leader_ip
}

output "leader_interface" {
  description = "Id of the network interface that carries the leader's address."
  value       = aws_network_interface.leader.id
}

output "autoscaling_group" {
  description = "Name of the auto-scaling group of the servers."
  value       = aws_autoscaling_group.servers.name
}
