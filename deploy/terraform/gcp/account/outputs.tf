output "server_role" {
  description = "The role of servers, as projects/PROJECT/roles/ID."
  value       = google_project_iam_custom_role.server.name
}
