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
  description = "Availability zone of the shard: that of the servers' subnet."
  type        = string
}

variable "bucket" {
  description = "Name of the cluster's bucket."
  type        = string
}

variable "server_role_name" {
  description = "Name of the servers' role, which is allowed to move the leader's address."
  type        = string
}

variable "server_profile_arn" {
  description = "ARN of the servers' instance profile."
  type        = string
}

variable "server_subnet" {
  description = "Id of the servers' subnet."
  type        = string
}

variable "server_security_group" {
  description = "Id of the servers' security group."
  type        = string
}

variable "leader_ip" {
  description = "Address of whoever leads, in the servers' subnet. Agents and operators use it for ever."
  type        = string
}

variable "servers" {
  description = "How many servers there are: one, which comes back by itself, or more for standbys."
  type        = number
  default     = 1
}

variable "instance_type" {
  description = "Instance type of servers, of the architecture of their image."
  type        = string
  default     = "t4g.small"
}

variable "image" {
  description = "Image of servers. Empty: the newest Amazon Linux 2023 for arm64, which configures the leader's interface by itself."
  type        = string
  default     = ""
}

variable "server_url" {
  description = "HTTPS address of the program nstance-server-aws, for the image's architecture."
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
  description = "Pools of machines' subnets by name, each a list of ids in the order in which they are tried."
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

variable "target_group_arns" {
  description = "ARNs of the target groups that servers may put machines into."
  type        = list(string)
  default     = []
}

variable "images" {
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

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
