variable "name" {
  description = "Name of the VPC, and the beginning of the other names."
  type        = string
}

variable "region" {
  description = "Region of the VPC."
  type        = string
}

variable "cidr" {
  description = "IPv4 addresses of the VPC, such as 10.0.0.0/16."
  type        = string
}

variable "zones" {
  description = "The zones by name, and the addresses in each: of the gateway, of servers, and of machines."
  type = map(object({
    public   = string
    servers  = string
    machines = string
  }))
}

variable "operator_cidrs" {
  description = "Addresses from which operators and nstance-admin reach the servers' ports 8992 and 8993, beside machines."
  type        = list(string)
  default     = []
}

variable "cluster_cidrs" {
  description = "Addresses of the Kubernetes cluster that machines join: its control plane and its other Nodes. They reach machines as machines reach each other, at every port: kubelets, and what the network plug-in carries."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
