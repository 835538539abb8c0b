# A cluster: its bucket, and who its servers and its machines are.

resource "google_storage_bucket" "this" {
  project  = var.project
  name     = var.bucket
  location = var.location
  labels   = var.labels

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  # Locks are written every few seconds: what is kept of old versions is for mistakes of
  # people, and soft delete would keep everything twice.
  versioning {
    enabled = true
  }

  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }

    condition {
      days_since_noncurrent_time = var.old_versions_days
    }
  }
}

resource "google_service_account" "server" {
  project      = var.project
  account_id   = "${var.cluster_id}-server"
  display_name = "Servers of Nstance cluster ${var.cluster_id}"
}

# Agents call no API of Google: the account says who a machine is, and allows nothing.
# What the work on machines needs is granted to it elsewhere.
resource "google_service_account" "machine" {
  project      = var.project
  account_id   = "${var.cluster_id}-machine"
  display_name = "Machines of Nstance cluster ${var.cluster_id}"
}

resource "google_project_iam_member" "server" {
  project = var.project
  role    = var.server_role
  member  = google_service_account.server.member
}

resource "google_service_account_iam_member" "server_starts_machines" {
  service_account_id = google_service_account.machine.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.server.member
}

resource "google_storage_bucket_iam_member" "server" {
  bucket = google_storage_bucket.this.name
  role   = "roles/storage.objectUser"
  member = google_service_account.server.member
}

# The key that seals the cluster's keys in the bucket. Its value is put in by hand, so
# that no state file has it.
resource "google_secret_manager_secret" "encryption_key" {
  project   = var.project
  secret_id = "${var.cluster_id}-encryption-key"
  labels    = var.labels

  replication {
    auto {}
  }
}

resource "google_secret_manager_secret_iam_member" "server" {
  project   = var.project
  secret_id = google_secret_manager_secret.encryption_key.secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.server.member
}
