variable "project" {
  description = "Id of the project."
  type        = string
}

variable "cluster_id" {
  description = "Id of the cluster: lower-case letters, digits and single hyphens, beginning with a letter, 6 to 22."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.cluster_id)) && length(var.cluster_id) >= 6 && length(var.cluster_id) <= 22
    error_message = "The names of service accounts are made of the cluster id: lower-case letters, digits and single hyphens, beginning with a letter, 6 to 22."
  }
}

variable "bucket" {
  description = "Name of the bucket that is made for the cluster. Names of buckets are unique in the world."
  type        = string
}

variable "location" {
  description = "Location of the bucket: the region of the servers, such as EUROPE-WEST1."
  type        = string
}

variable "server_role" {
  description = "The role of servers, as the module account gives it."
  type        = string
}

variable "old_versions_days" {
  description = "How many days the bucket keeps what was replaced or deleted."
  type        = number
  default     = 30
}

variable "labels" {
  description = "Labels of everything that is made."
  type        = map(string)
  default     = {}
}
