# Servers keep nothing that lasts: one that dies is replaced by another one.

data "aws_ssm_parameter" "image" {
  count = var.image == "" ? 1 : 0

  name = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
}

locals {
  user_data = templatefile("${path.module}/server.sh.tftpl", {
    bucket = var.bucket
    region = var.region
    shard  = var.shard
    sha256 = var.server_sha256
    unit   = file("${path.module}/../../../systemd/nstance-server.service")
    url    = var.server_url
  })
}

resource "aws_launch_template" "server" {
  name          = local.name
  image_id      = var.image == "" ? data.aws_ssm_parameter.image[0].insecure_value : var.image
  instance_type = var.instance_type
  user_data     = base64encode(local.user_data)
  tags          = var.tags

  vpc_security_group_ids = [var.server_security_group]
  update_default_version = true

  iam_instance_profile {
    arn = var.server_profile_arn
  }

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }

  tag_specifications {
    resource_type = "instance"
    tags          = merge(var.tags, { Name = local.name, nstance-server = local.name })
  }

  tag_specifications {
    resource_type = "volume"
    tags          = merge(var.tags, { Name = local.name })
  }
}

resource "aws_autoscaling_group" "servers" {
  name                = local.name
  min_size            = var.servers
  max_size            = var.servers
  vpc_zone_identifier = [var.server_subnet]
  health_check_type   = "EC2"

  launch_template {
    id      = aws_launch_template.server.id
    version = aws_launch_template.server.latest_version
  }

  # A new version replaces the servers one by one. With a single one, agents and machines do
  # without for the minute that this takes.
  instance_refresh {
    strategy = "Rolling"

    preferences {
      min_healthy_percentage = var.servers > 1 ? 50 : 0
    }
  }

  tag {
    key                 = "Name"
    value               = local.name
    propagate_at_launch = false
  }

  depends_on = [aws_s3_object.configuration, aws_iam_role_policy.leader]
}
