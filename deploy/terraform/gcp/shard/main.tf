# One shard: its configuration and the leader's address. The servers stand in
# servers.tf.

locals {
  name = "nstance-${var.cluster_id}-${var.shard}"

  # What nstance-server reads from config/{shard}.jsonc.
  configuration = {
    server = merge({
      cluster_id = var.cluster_id
      shard      = var.shard
      provider   = { kind = "google", region = var.region, zone = var.zone, options = { project = var.project } }
      secrets = {
        encryption_key = { provider = "google-secret-manager", source = var.encryption_key_secret, project_id = var.project }
      }
      leader_network = { ip = var.leader_ip }
      subnet_pools   = var.subnet_pools
    }, var.server)
    tenants        = var.tenants
    load_balancers = var.load_balancers
    certificates   = var.certificates
    defaults       = var.defaults
    templates      = var.templates
    groups         = var.groups
  }
}

resource "google_storage_bucket_object" "configuration" {
  bucket       = var.bucket
  name         = "config/${var.shard}.jsonc"
  content      = jsonencode(local.configuration)
  content_type = "application/json"
}
