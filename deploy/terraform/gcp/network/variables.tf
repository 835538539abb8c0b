variable "project" {
  description = "Id of the project."
  type        = string
}

variable "region" {
  description = "Region of the subnets."
  type        = string
}

variable "name" {
  description = "Name of the network, and the beginning of the other names."
  type        = string
}

variable "server_range" {
  description = "Addresses of servers."
  type        = string
}

variable "leader_range" {
  description = "Addresses of leaders: one for each shard, in no other range."
  type        = string
}

variable "machine_range" {
  description = "Addresses of machines. The cloud keeps four of them, and servers leave ten."
  type        = string
}

variable "operator_ranges" {
  description = "From where operators and nstance-admin reach the servers' ports 8992 and 8993, beside machines."
  type        = list(string)
  default     = []
}
