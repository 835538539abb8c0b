# A cluster in two zones, with a group of three machines in each.

provider "google" {
  project = var.project
  region  = var.region
}

module "account" {
  source = "../account"

  project = var.project
}

module "network" {
  source = "../network"

  project       = var.project
  region        = var.region
  name          = "nstance-${var.cluster_id}"
  server_range  = "10.0.0.0/24"
  leader_range  = "10.0.1.0/28"
  machine_range = "10.0.16.0/20"
}

module "cluster" {
  source = "../cluster"

  project     = var.project
  cluster_id  = var.cluster_id
  bucket      = var.bucket
  location    = upper(var.region)
  server_role = module.account.server_role
}

module "shard" {
  source   = "../shard"
  for_each = var.zones

  project    = var.project
  cluster_id = module.cluster.cluster_id
  shard      = each.key
  region     = var.region
  zone       = each.key
  bucket     = module.cluster.bucket

  encryption_key_secret = module.cluster.encryption_key_secret
  server_account        = module.cluster.server_account
  server_subnet         = module.network.server_subnet
  server_tag            = module.network.server_tag
  server_url            = var.server_url
  server_sha256         = var.server_sha256
  leader_ip             = each.value

  subnet_pools = { workers = [module.network.machine_subnet] }

  defaults = {
    vars     = { agent_url = var.agent_url }
    userdata = { content = file("${path.module}/../../../userdata/shell.sh") }
  }

  templates = {
    worker = {
      kind          = "wrk"
      arch          = "amd64"
      instance_type = ["e2-small", "e2-medium"]
      subnet_pool   = "workers"
      args = {
        SourceImage    = "projects/debian-cloud/global/images/family/debian-13"
        ServiceAccount = module.cluster.machine_account
        NetworkTags    = [module.network.machine_tag]
      }
    }
  }

  groups = {
    default = {
      web = { template = "worker", size = var.size }
    }
  }
}
