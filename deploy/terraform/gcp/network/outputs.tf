output "server_subnet" {
  description = "The subnet of servers, by its full name."
  value       = google_compute_subnetwork.servers.id
}

output "machine_subnet" {
  description = "The subnet of machines, by its full name, as subnet pools have it."
  value       = google_compute_subnetwork.machines.id
}

output "server_tag" {
  description = "The network tag that makes a machine a server to the firewall."
  value       = local.server_tag
}

output "machine_tag" {
  description = "The network tag that makes a machine one of the cluster to the firewall: the argument NetworkTags of templates."
  value       = local.machine_tag
}
