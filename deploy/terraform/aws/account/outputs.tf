output "agent_role_arn" {
  description = "ARN of the role of machines, which servers have to be allowed to pass on."
  value       = aws_iam_role.agent.arn
}

output "agent_profile_name" {
  description = "Name of the instance profile of machines, for IamInstanceProfile in a template's args."
  value       = aws_iam_instance_profile.agent.name
}
