# One shard: its configuration, the leader's address, and servers in an auto-scaling
# group.

locals {
  name = "nstance-${var.cluster_id}-${var.shard}"

  # What nstance-server reads from config/{shard}.jsonc.
  configuration = {
    server = merge({
      cluster_id     = var.cluster_id
      shard          = var.shard
      provider       = { kind = "aws", region = var.region, zone = var.zone }
      secrets        = { provider = "aws-parameter-store" }
      leader_network = { ip = var.leader_ip, interface_id = aws_network_interface.leader.id }
      subnet_pools   = var.subnet_pools
    }, var.server)
    tenants        = var.tenants
    load_balancers = var.load_balancers
    images         = var.images
    certificates   = var.certificates
    defaults       = var.defaults
    templates      = var.templates
    groups         = var.groups
  }
}

resource "aws_s3_object" "configuration" {
  bucket       = var.bucket
  key          = "config/${var.shard}.jsonc"
  content      = jsonencode(local.configuration)
  content_type = "application/json"
}

# The address moves with the interface. The tag lets the servers of this cluster move
# it, and no others.
resource "aws_network_interface" "leader" {
  subnet_id       = var.server_subnet
  private_ips     = [var.leader_ip]
  security_groups = [var.server_security_group]
  description     = "Leader of shard ${var.shard} of cluster ${var.cluster_id}"
  tags            = merge(var.tags, { Name = "${local.name}-leader" })

  lifecycle {
    ignore_changes = [attachment]
  }
}

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

resource "aws_iam_role_policy" "leader" {
  name = "leader-${var.shard}"
  role = var.server_role_name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "TheInterface"
        Effect   = "Allow"
        Action   = ["ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface"]
        Resource = aws_network_interface.leader.arn
      },
      {
        Sid       = "ToServers"
        Effect    = "Allow"
        Action    = ["ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface"]
        Resource  = "arn:${data.aws_partition.current.partition}:ec2:${var.region}:${data.aws_caller_identity.current.account_id}:instance/*"
        Condition = { StringEquals = { "aws:ResourceTag/nstance-server" = local.name } }
      },
    ]
  })
}

resource "aws_iam_role_policy" "balancers" {
  count = length(var.target_group_arns) > 0 ? 1 : 0

  name = "balancers-${var.shard}"
  role = var.server_role_name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets"]
        Resource = var.target_group_arns
      },
      {
        Effect   = "Allow"
        Action   = "elasticloadbalancing:DescribeTargetHealth"
        Resource = "*"
      },
    ]
  })
}
