output "configurations" {
  description = "The configuration of each shard."
  value       = { for zone, shard in module.shard : zone => shard.configuration }
}

output "leaders" {
  description = "Address of the leader of each shard."
  value       = { for zone, shard in module.shard : zone => shard.leader_ip }
}

output "encryption_key_secret" {
  description = "Id of the secret that needs a version before the servers can start."
  value       = module.cluster.encryption_key_secret
}
