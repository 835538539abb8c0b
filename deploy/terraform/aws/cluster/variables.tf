variable "cluster_id" {
  description = "Id of the cluster: lower-case letters, digits and single hyphens, 32 at most."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]+(-[a-z0-9]+)*$", var.cluster_id)) && length(var.cluster_id) <= 32
    error_message = "The cluster id must be lower-case letters, digits and single hyphens, 32 at most."
  }
}

variable "bucket" {
  description = "Name of the bucket that is made for the cluster."
  type        = string
}

variable "agent_role_arn" {
  description = "ARN of the role of machines, as the module account gives it."
  type        = string
}

variable "old_versions_days" {
  description = "How many days the bucket keeps what was replaced or deleted."
  type        = number
  default     = 30
}

variable "machine_output" {
  description = "Let servers read what machines write to their serial console, for nstance-admin instance logs and console."
  type        = bool
  default     = false
}

variable "power" {
  description = "Let servers start and stop machines of the cluster. Nothing does so by itself."
  type        = bool
  default     = false
}

variable "spot_prices" {
  description = "Let servers read spot prices, which the list of instance types then shows."
  type        = bool
  default     = false
}

variable "volume_key_arns" {
  description = "ARNs of customer-managed KMS keys that volumes of machines are encrypted with."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
