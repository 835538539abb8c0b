variable "project" {
  description = "Id of the project."
  type        = string
}

variable "role_id" {
  description = "Id of the role of servers in the project. One that was deleted stays taken for weeks."
  type        = string
  default     = "nstanceServer"
}

variable "machine_output" {
  description = "Let servers read what machines write to their serial port, for nstance-admin instance logs and console."
  type        = bool
  default     = false
}

variable "power" {
  description = "Let servers start, stop, reset and resume machines. Nothing does so by itself."
  type        = bool
  default     = false
}
