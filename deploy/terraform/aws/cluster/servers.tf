# The role of servers. What it allows is the least that they need: see "Permissions" in
# docs/providers/aws.md. Machines of other clusters in the account are out of its reach.

# Images and public snapshots belong to no account of ours: they are shared.
locals {
  partition = data.aws_partition.current.partition
  account   = data.aws_caller_identity.current.account_id
  ec2       = "arn:${local.partition}:ec2:*:${local.account}"
  shared    = "arn:${local.partition}:ec2:*:"
}

resource "aws_iam_role" "server" {
  name = "nstance-server-${var.cluster_id}"
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

resource "aws_iam_instance_profile" "server" {
  name = aws_iam_role.server.name
  role = aws_iam_role.server.name
  tags = var.tags
}

resource "aws_iam_role_policy" "storage" {
  name = "storage"
  role = aws_iam_role.server.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = "s3:ListBucket"
        Resource = aws_s3_bucket.this.arn
      },
      {
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
        Resource = "${aws_s3_bucket.this.arn}/*"
      },
    ]
  })
}

# The cluster's keys, in the Parameter Store under its name.
resource "aws_iam_role_policy" "secrets" {
  name = "secrets"
  role = aws_iam_role.server.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = ["ssm:GetParameter", "ssm:GetParametersByPath", "ssm:PutParameter", "ssm:DeleteParameter"]
      Resource = [
        "arn:${local.partition}:ssm:*:${local.account}:parameter/${var.cluster_id}",
        "arn:${local.partition}:ssm:*:${local.account}:parameter/${var.cluster_id}/*",
      ]
    }]
  })
}

resource "aws_iam_role_policy" "machines" {
  name = "machines"
  role = aws_iam_role.server.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "See"
        Effect = "Allow"
        Action = [
          "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes",
          "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
        ]
        Resource = "*"
      },
      {
        Sid       = "LaunchAsOurs"
        Effect    = "Allow"
        Action    = "ec2:RunInstances"
        Resource  = ["${local.ec2}:instance/*", "${local.ec2}:volume/*", "${local.ec2}:network-interface/*"]
        Condition = { StringEquals = { "aws:RequestTag/nstance:cluster-id" = var.cluster_id } }
      },
      {
        Sid    = "LaunchWith"
        Effect = "Allow"
        Action = "ec2:RunInstances"
        Resource = [
          "${local.shared}:image/*", "${local.shared}:snapshot/*", "${local.ec2}:key-pair/*", "${local.ec2}:launch-template/*",
          "${local.ec2}:placement-group/*", "${local.ec2}:security-group/*", "${local.ec2}:subnet/*", "${local.ec2}:spot-instances-request/*",
        ]
      },
      {
        Sid       = "Tag"
        Effect    = "Allow"
        Action    = "ec2:CreateTags"
        Resource  = "*"
        Condition = { StringEquals = { "ec2:CreateAction" = "RunInstances" } }
      },
      {
        Sid       = "Ours"
        Effect    = "Allow"
        Action    = "ec2:TerminateInstances"
        Resource  = "${local.ec2}:instance/*"
        Condition = { StringEquals = { "aws:ResourceTag/nstance:cluster-id" = var.cluster_id } }
      },
      {
        Sid       = "AgentsRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = var.agent_role_arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } }
      },
    ]
  })
}

# What features allow that are not in use by default: see "Optional permissions" in
# docs/providers/aws.md.
resource "aws_iam_role_policy" "power" {
  count = var.power ? 1 : 0

  name = "power"
  role = aws_iam_role.server.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = ["ec2:StartInstances", "ec2:StopInstances"]
      Resource  = "${local.ec2}:instance/*"
      Condition = { StringEquals = { "aws:ResourceTag/nstance:cluster-id" = var.cluster_id } }
    }]
  })
}

resource "aws_iam_role_policy" "machine_output" {
  count = var.machine_output ? 1 : 0

  name = "machine-output"
  role = aws_iam_role.server.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "ec2:GetConsoleOutput"
      Resource  = "${local.ec2}:instance/*"
      Condition = { StringEquals = { "aws:ResourceTag/nstance:cluster-id" = var.cluster_id } }
    }]
  })
}

resource "aws_iam_role_policy" "spot_prices" {
  count = var.spot_prices ? 1 : 0

  name = "spot-prices"
  role = aws_iam_role.server.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "ec2:DescribeSpotPriceHistory"
      Resource = "*"
    }]
  })
}

# Volumes that are encrypted with keys of the account's own: EC2 uses a key on behalf of
# whoever launches.
resource "aws_iam_role_policy" "volume_keys" {
  count = length(var.volume_key_arns) > 0 ? 1 : 0

  name = "volume-keys"
  role = aws_iam_role.server.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncrypt*"]
        Resource = var.volume_key_arns
      },
      {
        Effect    = "Allow"
        Action    = "kms:CreateGrant"
        Resource  = var.volume_key_arns
        Condition = { Bool = { "kms:GrantIsForAWSResource" = "true" } }
      },
    ]
  })
}
