# Servers keep nothing that lasts: one that dies is replaced by another one.

resource "google_compute_instance_template" "server" {
  project      = var.project
  region       = var.region
  name_prefix  = "${substr(local.name, 0, 37)}-"
  machine_type = var.machine_type
  tags         = [var.server_tag]
  labels       = var.labels

  metadata = {
    enable-oslogin = "TRUE"
    startup-script = templatefile("${path.module}/server.sh.tftpl", {
      bucket = var.bucket
      sha256 = var.server_sha256
      shard  = var.shard
      unit   = file("${path.module}/../../../systemd/nstance-server.service")
      url    = var.server_url
    })
  }

  disk {
    source_image = var.image
    boot         = true
    auto_delete  = true
    disk_size_gb = 20
  }

  network_interface {
    subnetwork = var.server_subnet
  }

  service_account {
    email  = var.server_account
    scopes = ["cloud-platform"]
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_health_check" "server" {
  project             = var.project
  name                = local.name
  check_interval_sec  = 10
  timeout_sec         = 5
  unhealthy_threshold = 6

  http_health_check {
    port         = 8990
    request_path = "/livez"
  }
}

resource "google_compute_instance_group_manager" "servers" {
  project            = var.project
  zone               = var.zone
  name               = local.name
  base_instance_name = local.name
  target_size        = var.servers

  version {
    instance_template = google_compute_instance_template.server.id
  }

  # The check does not count while a server is being set up.
  auto_healing_policies {
    health_check      = google_compute_health_check.server.id
    initial_delay_sec = 300
  }

  # A new version replaces the servers one by one. With a single one, agents and machines
  # do without for the minute that this takes.
  update_policy {
    type                  = "PROACTIVE"
    minimal_action        = "REPLACE"
    max_surge_fixed       = 0
    max_unavailable_fixed = 1
  }

  depends_on = [google_storage_bucket_object.configuration]
}
