# What an account needs once, however many clusters it has.

# Agents call no API of AWS: the role says who a machine is, and allows nothing. What
# the work on machines needs is attached to it elsewhere.
resource "aws_iam_role" "agent" {
  name = var.agent_name
  tags = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

resource "aws_iam_instance_profile" "agent" {
  name = var.agent_name
  role = aws_iam_role.agent.name
  tags = var.tags
}

resource "aws_iam_service_linked_role" "spot" {
  count = var.spot ? 1 : 0

  aws_service_name = "spot.amazonaws.com"
}
