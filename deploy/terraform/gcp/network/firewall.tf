# Who may talk to whom. Ports: 8990 health and 8991 elections, between servers; 8992
# registration and 8994 agents, from machines; 8993 operators, which register at 8992.

locals {
  server_tag  = "${var.name}-server"
  machine_tag = "${var.name}-machine"
}

resource "google_compute_firewall" "between_servers" {
  project     = var.project
  name        = "${var.name}-between-servers"
  network     = google_compute_network.this.id
  source_tags = [local.server_tag]
  target_tags = [local.server_tag]

  allow {
    protocol = "tcp"
    ports    = ["8990", "8991"]
  }
}

resource "google_compute_firewall" "from_machines" {
  project     = var.project
  name        = "${var.name}-from-machines"
  network     = google_compute_network.this.id
  source_tags = [local.machine_tag]
  target_tags = [local.server_tag]

  allow {
    protocol = "tcp"
    ports    = ["8992", "8993", "8994"]
  }
}

resource "google_compute_firewall" "from_operators" {
  count = length(var.operator_ranges) > 0 ? 1 : 0

  project       = var.project
  name          = "${var.name}-from-operators"
  network       = google_compute_network.this.id
  source_ranges = var.operator_ranges
  target_tags   = [local.server_tag]

  allow {
    protocol = "tcp"
    ports    = ["8992", "8993"]
  }
}

# Those who ask whether a server is to be replaced.
# https://cloud.google.com/load-balancing/docs/health-checks#firewall_rules
resource "google_compute_firewall" "from_health_checks" {
  project       = var.project
  name          = "${var.name}-from-health-checks"
  network       = google_compute_network.this.id
  source_ranges = ["35.191.0.0/16", "130.211.0.0/22"]
  target_tags   = [local.server_tag]

  allow {
    protocol = "tcp"
    ports    = ["8990"]
  }
}

# What machines do is not decided here: they reach each other and everything outside.
resource "google_compute_firewall" "between_machines" {
  project     = var.project
  name        = "${var.name}-between-machines"
  network     = google_compute_network.this.id
  source_tags = [local.machine_tag]
  target_tags = [local.machine_tag]

  allow {
    protocol = "all"
  }
}

resource "google_compute_firewall" "from_cluster" {
  count = length(var.cluster_ranges) > 0 ? 1 : 0

  project       = var.project
  name          = "${var.name}-from-cluster"
  network       = google_compute_network.this.id
  source_ranges = var.cluster_ranges
  target_tags   = [local.machine_tag]

  allow {
    protocol = "all"
  }
}
