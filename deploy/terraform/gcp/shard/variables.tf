variable "project" {
  description = "Id of the project."
  type        = string
}

variable "cluster_id" {
  description = "Id of the cluster."
  type        = string
}

variable "shard" {
  description = "Id of the shard, such as the name of its zone."
  type        = string
}

variable "region" {
  description = "Region of the shard."
  type        = string
}

variable "zone" {
  description = "Zone of the shard."
  type        = string
}

variable "bucket" {
  description = "Name of the cluster's bucket."
  type        = string
}

variable "encryption_key_secret" {
  description = "Id of the secret that holds the key of the cluster's keys."
  type        = string
}

variable "server_account" {
  description = "E-mail address of the service account of servers."
  type        = string
}

variable "server_subnet" {
  description = "The subnet of servers, by its full name."
  type        = string
}

variable "server_tag" {
  description = "The network tag of servers."
  type        = string
}

variable "leader_ip" {
  description = "Address of whoever leads, in a range of the servers' subnet that nobody else uses. Agents and operators use it for ever."
  type        = string
}

variable "servers" {
  description = "How many servers there are: one, which comes back by itself, or more for standbys."
  type        = number
  default     = 1
}

variable "machine_type" {
  description = "Machine type of servers, of the architecture of their image."
  type        = string
  default     = "e2-small"
}

variable "image" {
  description = "Image of servers, or its family: one with systemd and Google's guest environment, which configures the leader's address by itself."
  type        = string
  default     = "projects/debian-cloud/global/images/family/debian-13"
}

variable "server_url" {
  description = "HTTPS address of the program nstance-server-gcp, for the image's architecture."
  type        = string
}

variable "server_sha256" {
  description = "SHA-256 of that program, in hexadecimal digits."
  type        = string

  validation {
    condition     = can(regex("^[0-9a-f]{64}$", var.server_sha256))
    error_message = "The checksum must be 64 lower-case hexadecimal digits."
  }
}

variable "subnet_pools" {
  description = "Pools of machines' subnets by name, each a list of subnets in the order in which they are tried."
  type        = map(list(string))
}

variable "server" {
  description = "More of the configuration's section server, which wins over what is set here: intervals, rails, elections."
  type        = any
  default     = {}
}

variable "load_balancers" {
  description = "The configuration's section of that name."
  type        = any
  default     = {}
}

variable "certificates" {
  description = "The configuration's section of that name."
  type        = any
  default     = {}
}

variable "defaults" {
  description = "The configuration's section of that name."
  type        = any
  default     = {}
}

variable "templates" {
  description = "The configuration's section of that name."
  type        = any
}

variable "groups" {
  description = "The configuration's section of that name: groups by tenant and name."
  type        = any
  default     = {}
}

variable "tenants" {
  description = "The configuration's section of that name: tenants beside the default one."
  type        = any
  default     = {}
}

variable "labels" {
  description = "Labels of the servers."
  type        = map(string)
  default     = {}
}
