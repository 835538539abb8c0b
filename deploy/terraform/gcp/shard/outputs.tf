output "configuration" {
  description = "The configuration of the shard, as it is in the bucket."
  value       = jsonencode(local.configuration)
}

output "leader_ip" {
  description = "Address of whoever leads: ports 8992 for registration, 8993 for operators, 8994 for agents."
  value       = var.leader_ip
}

output "instance_group" {
  description = "The instance group of the servers, by its full name."
  value       = google_compute_instance_group_manager.servers.instance_group
}
