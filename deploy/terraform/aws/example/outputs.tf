output "configurations" {
  description = "The configuration of each shard."
  value       = { for zone, shard in module.shard : zone => shard.configuration }
}

output "leaders" {
  description = "Address of the leader of each shard."
  value       = { for zone, shard in module.shard : zone => shard.leader_ip }
}
