# A VPC with three subnets in each zone: one for the way out, one for servers, and one
# for machines. Nothing in the last two can be reached from outside.

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = merge(var.tags, { Name = var.name })
}

resource "aws_subnet" "public" {
  for_each = var.zones

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = each.value.public
  tags              = merge(var.tags, { Name = "${var.name}-public-${each.key}" })
}

resource "aws_subnet" "servers" {
  for_each = var.zones

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = each.value.servers
  tags              = merge(var.tags, { Name = "${var.name}-servers-${each.key}" })
}

resource "aws_subnet" "machines" {
  for_each = var.zones

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = each.value.machines
  tags              = merge(var.tags, { Name = "${var.name}-machines-${each.key}" })
}

# The way out, a zone at a time: one that fails takes no other with it.

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = "${var.name}-public" })

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.this.id
  }
}

resource "aws_route_table_association" "public" {
  for_each = var.zones

  subnet_id      = aws_subnet.public[each.key].id
  route_table_id = aws_route_table.public.id
}

resource "aws_eip" "nat" {
  for_each = var.zones

  domain = "vpc"
  tags   = merge(var.tags, { Name = "${var.name}-nat-${each.key}" })
}

resource "aws_nat_gateway" "this" {
  for_each = var.zones

  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[each.key].id
  tags          = merge(var.tags, { Name = "${var.name}-${each.key}" })

  depends_on = [aws_internet_gateway.this]
}

resource "aws_route_table" "private" {
  for_each = var.zones

  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = "${var.name}-private-${each.key}" })

  route {
    cidr_block     = "0.0.0.0/0"
    nat_gateway_id = aws_nat_gateway.this[each.key].id
  }
}

resource "aws_route_table_association" "servers" {
  for_each = var.zones

  subnet_id      = aws_subnet.servers[each.key].id
  route_table_id = aws_route_table.private[each.key].id
}

resource "aws_route_table_association" "machines" {
  for_each = var.zones

  subnet_id      = aws_subnet.machines[each.key].id
  route_table_id = aws_route_table.private[each.key].id
}

# Storage is reached without the gateways, and without what they cost.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${var.region}.s3"
  route_table_ids   = [for zone, table in aws_route_table.private : table.id]
  tags              = merge(var.tags, { Name = "${var.name}-s3" })
}
