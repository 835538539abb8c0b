output "cluster_id" {
  description = "Id of the cluster."
  value       = var.cluster_id
}

output "bucket" {
  description = "Name of the cluster's bucket."
  value       = google_storage_bucket.this.name
}

output "server_account" {
  description = "E-mail address of the service account of servers."
  value       = google_service_account.server.email
}

output "machine_account" {
  description = "E-mail address of the service account of machines: the argument ServiceAccount of templates."
  value       = google_service_account.machine.email
}

output "encryption_key_secret" {
  description = "Id of the secret that holds the key of the cluster's keys. It is empty until somebody adds a version."
  value       = google_secret_manager_secret.encryption_key.secret_id
}
