# A cluster in two zones, with a group of three machines in each.

provider "aws" {
  region = var.region
}

module "account" {
  source = "../account"
}

module "network" {
  source = "../network"

  name   = "nstance-${var.cluster_id}"
  region = var.region
  cidr   = "10.0.0.0/16"
  zones  = { for zone, of in var.zones : zone => { public = of.public, servers = of.servers, machines = of.machines } }
}

module "cluster" {
  source = "../cluster"

  cluster_id     = var.cluster_id
  bucket         = var.bucket
  agent_role_arn = module.account.agent_role_arn
}

module "shard" {
  source   = "../shard"
  for_each = var.zones

  cluster_id = module.cluster.cluster_id
  shard      = each.key
  region     = var.region
  zone       = each.key
  bucket     = module.cluster.bucket

  server_role_name      = module.cluster.server_role_name
  server_profile_arn    = module.cluster.server_profile_arn
  server_subnet         = module.network.server_subnets[each.key]
  server_security_group = module.network.server_security_group
  server_url            = var.server_url
  server_sha256         = var.server_sha256
  leader_ip             = each.value.leader

  subnet_pools = { workers = [module.network.machine_subnets[each.key]] }

  images = {
    debian = {
      provider = "aws"
      owners   = ["136693071363"]
      filters  = [{ name = "name", values = ["debian-13-arm64-*"] }]
      sort     = "creation-date"
      order    = "desc"
    }
  }

  defaults = {
    vars     = { agent_url = var.agent_url }
    userdata = { content = file("${path.module}/../../../userdata/shell.sh") }
  }

  templates = {
    worker = {
      kind          = "wrk"
      arch          = "arm64"
      instance_type = ["t4g.small", "m7g.medium"]
      subnet_pool   = "workers"
      args = {
        ImageId            = "{{ .Image.debian }}"
        SecurityGroupIds   = [module.network.machine_security_group]
        IamInstanceProfile = { Name = module.account.agent_profile_name }
        MetadataOptions    = { HttpTokens = "required" }
      }
    }
  }

  groups = {
    default = {
      web = { template = "worker", size = var.size }
    }
  }
}
