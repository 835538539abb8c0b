variable "project" {
  description = "Id of the project."
  type        = string
}

variable "region" {
  description = "Region of the cluster."
  type        = string
  default     = "europe-west1"
}

variable "cluster_id" {
  description = "Id of the cluster."
  type        = string
  default     = "example"
}

variable "bucket" {
  description = "Name of the bucket that is made for the cluster. Names of buckets are unique in the world."
  type        = string
}

variable "zones" {
  description = "The leader's address in each zone, by the zone's name."
  type        = map(string)

  default = {
    europe-west1-b = "10.0.1.2"
    europe-west1-c = "10.0.1.3"
  }
}

variable "server_url" {
  description = "HTTPS address of the program nstance-server-gcp for amd64."
  type        = string
}

variable "server_sha256" {
  description = "SHA-256 of that program, in hexadecimal digits."
  type        = string
}

variable "agent_url" {
  description = "HTTPS address of the program nstance-agent for amd64."
  type        = string
}

variable "size" {
  description = "How many machines the group web has in each zone."
  type        = number
  default     = 3
}
