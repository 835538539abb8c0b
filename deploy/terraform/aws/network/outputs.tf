output "vpc_id" {
  description = "Id of the VPC."
  value       = aws_vpc.this.id
}

output "server_subnets" {
  description = "Ids of the subnets of servers, by zone."
  value       = { for zone, subnet in aws_subnet.servers : zone => subnet.id }
}

output "machine_subnets" {
  description = "Ids of the subnets of machines, by zone."
  value       = { for zone, subnet in aws_subnet.machines : zone => subnet.id }
}

output "server_security_group" {
  description = "Id of the security group of servers."
  value       = aws_security_group.servers.id
}

output "machine_security_group" {
  description = "Id of the security group of machines."
  value       = aws_security_group.machines.id
}
