# What a project needs once, however many clusters it has.

resource "google_project_service" "needed" {
  for_each = toset([
    "compute.googleapis.com",
    "iam.googleapis.com",
    "secretmanager.googleapis.com",
    "storage.googleapis.com",
  ])

  project            = var.project
  service            = each.value
  disable_on_destroy = false
}

# The least that a server needs of Compute Engine: see "Permissions" in
# docs/providers/gcp.md. That it may let machines act as a service account is allowed
# in the module cluster, for that one account.
resource "google_project_iam_custom_role" "server" {
  project     = var.project
  role_id     = var.role_id
  title       = "Nstance server"
  description = "What nstance-server-gcp needs of Compute Engine"
  permissions = sort(concat(local.machines, local.balancers, local.leader, var.power ? local.power : [], var.machine_output ? local.output : []))

  depends_on = [google_project_service.needed]
}

locals {
  machines = [
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "compute.instances.setTags",
    "compute.machineTypes.get",
    "compute.machineTypes.list",
    "compute.subnetworks.get",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.zoneOperations.get",
    "compute.zoneOperations.list",
    "compute.zones.get",
  ]

  balancers = [
    "compute.instanceGroups.list",
    "compute.instanceGroups.update",
    "compute.instances.use",
    "compute.networkEndpointGroups.attachNetworkEndpoints",
    "compute.networkEndpointGroups.detachNetworkEndpoints",
    "compute.networkEndpointGroups.get",
  ]

  leader = ["compute.instances.updateNetworkInterface"]

  # What nothing uses by default: see "Optional permissions" in docs/providers/gcp.md.
  power = [
    "compute.instances.reset",
    "compute.instances.resume",
    "compute.instances.start",
    "compute.instances.stop",
  ]

  output = ["compute.instances.getSerialPortOutput"]
}
