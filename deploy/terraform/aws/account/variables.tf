variable "agent_name" {
  description = "Name of the role and of the instance profile of machines."
  type        = string
  default     = "nstance-agent"
}

variable "spot" {
  description = "Make the role that EC2 needs for spot machines. An account that ever had one has it already."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
