# Who may talk to whom. Ports: 8990 health and 8991 elections, between servers; 8992
# registration and 8994 agents, from machines; 8993 operators, which register at 8992.

locals {
  from_machines = { registration = 8992, operators = 8993, agents = 8994 }
  from_servers  = { health = 8990, elections = 8991 }
}

resource "aws_security_group" "servers" {
  name        = "${var.name}-servers"
  description = "Servers of Nstance"
  vpc_id      = aws_vpc.this.id
  tags        = merge(var.tags, { Name = "${var.name}-servers" })
}

resource "aws_security_group" "machines" {
  name        = "${var.name}-machines"
  description = "Machines of Nstance"
  vpc_id      = aws_vpc.this.id
  tags        = merge(var.tags, { Name = "${var.name}-machines" })
}

resource "aws_vpc_security_group_ingress_rule" "from_machines" {
  for_each = local.from_machines

  security_group_id            = aws_security_group.servers.id
  referenced_security_group_id = aws_security_group.machines.id
  description                  = each.key
  ip_protocol                  = "tcp"
  from_port                    = each.value
  to_port                      = each.value
}

resource "aws_vpc_security_group_ingress_rule" "from_servers" {
  for_each = local.from_servers

  security_group_id            = aws_security_group.servers.id
  referenced_security_group_id = aws_security_group.servers.id
  description                  = each.key
  ip_protocol                  = "tcp"
  from_port                    = each.value
  to_port                      = each.value
}

resource "aws_vpc_security_group_ingress_rule" "from_operators" {
  for_each = toset(var.operator_cidrs)

  security_group_id = aws_security_group.servers.id
  cidr_ipv4         = each.value
  description       = "operators"
  ip_protocol       = "tcp"
  from_port         = local.from_machines.operators
  to_port           = local.from_machines.operators
}

# A resource of its own: the rules above keep their addresses in states that exist.
resource "aws_vpc_security_group_ingress_rule" "from_registering_operators" {
  for_each = toset(var.operator_cidrs)

  security_group_id = aws_security_group.servers.id
  cidr_ipv4         = each.value
  description       = "operators that register"
  ip_protocol       = "tcp"
  from_port         = local.from_machines.registration
  to_port           = local.from_machines.registration
}

# Servers talk to each other and to AWS.
resource "aws_vpc_security_group_egress_rule" "between_servers" {
  for_each = local.from_servers

  security_group_id            = aws_security_group.servers.id
  referenced_security_group_id = aws_security_group.servers.id
  description                  = each.key
  ip_protocol                  = "tcp"
  from_port                    = each.value
  to_port                      = each.value
}

resource "aws_vpc_security_group_egress_rule" "to_aws" {
  security_group_id = aws_security_group.servers.id
  cidr_ipv4         = "0.0.0.0/0"
  description       = "HTTPS"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

# What machines do is not decided here: they reach each other and everything outside.
resource "aws_vpc_security_group_ingress_rule" "between_machines" {
  security_group_id            = aws_security_group.machines.id
  referenced_security_group_id = aws_security_group.machines.id
  description                  = "each other"
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_ingress_rule" "from_cluster" {
  for_each = toset(var.cluster_cidrs)

  security_group_id = aws_security_group.machines.id
  cidr_ipv4         = each.value
  description       = "the cluster that they join"
  ip_protocol       = "-1"
}

resource "aws_vpc_security_group_egress_rule" "of_machines" {
  security_group_id = aws_security_group.machines.id
  cidr_ipv4         = "0.0.0.0/0"
  description       = "everything"
  ip_protocol       = "-1"
}
