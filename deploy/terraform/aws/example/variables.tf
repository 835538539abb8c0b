variable "region" {
  description = "Region of the cluster."
  type        = string
  default     = "us-east-1"
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
  description = "The zones by name: the addresses of their subnets, and the one of the leader among the servers'."
  type = map(object({
    public   = string
    servers  = string
    machines = string
    leader   = string
  }))

  default = {
    us-east-1a = { public = "10.0.0.0/24", servers = "10.0.1.0/24", machines = "10.0.16.0/20", leader = "10.0.1.100" }
    us-east-1b = { public = "10.0.2.0/24", servers = "10.0.3.0/24", machines = "10.0.32.0/20", leader = "10.0.3.100" }
  }
}

variable "server_url" {
  description = "HTTPS address of the program nstance-server-aws for arm64."
  type        = string
}

variable "server_sha256" {
  description = "SHA-256 of that program, in hexadecimal digits."
  type        = string
}

variable "agent_url" {
  description = "HTTPS address of the program nstance-agent for arm64."
  type        = string
}

variable "size" {
  description = "How many machines the group web has in each zone."
  type        = number
  default     = 3
}
