# A network with a subnet for servers and one for machines. Nothing in it can be reached
# from outside, but for operators.

resource "google_compute_network" "this" {
  project                 = var.project
  name                    = var.name
  auto_create_subnetworks = false
}

# The leader's addresses are a range of their own: what is in the first one the cloud
# gives to new machines.
resource "google_compute_subnetwork" "servers" {
  project                  = var.project
  region                   = var.region
  name                     = "${var.name}-servers"
  network                  = google_compute_network.this.id
  ip_cidr_range            = var.server_range
  private_ip_google_access = true

  secondary_ip_range {
    range_name    = "leaders"
    ip_cidr_range = var.leader_range
  }
}

resource "google_compute_subnetwork" "machines" {
  project                  = var.project
  region                   = var.region
  name                     = "${var.name}-machines"
  network                  = google_compute_network.this.id
  ip_cidr_range            = var.machine_range
  private_ip_google_access = true
}

# The way out, for what servers and machines fetch.
resource "google_compute_router" "this" {
  project = var.project
  region  = var.region
  name    = var.name
  network = google_compute_network.this.id
}

resource "google_compute_router_nat" "this" {
  project                            = var.project
  region                             = var.region
  name                               = var.name
  router                             = google_compute_router.this.name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
}
