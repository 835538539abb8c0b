output "cluster_id" {
  description = "Id of the cluster."
  value       = var.cluster_id
}

output "bucket" {
  description = "Name of the bucket."
  value       = aws_s3_bucket.this.id
}

output "server_role_name" {
  description = "Name of the role of servers."
  value       = aws_iam_role.server.name
}

output "server_profile_arn" {
  description = "ARN of the instance profile of servers."
  value       = aws_iam_instance_profile.server.arn
}
