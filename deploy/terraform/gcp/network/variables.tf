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

variable "cluster_ranges" {
  description = "Addresses of the Kubernetes cluster that machines join: its control plane and its other Nodes. They reach machines as machines reach each other, at every port: kubelets, and what the network plug-in carries."
  type        = list(string)
  default     = []
}
