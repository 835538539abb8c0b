// Package dashboards evaluates the queries of our dashboards and the alerting rules over scrapes of real
// programs, to which happens what the panels are about: those that are about the servers, on `dev` with
// machines on this box as `make dev` runs it, and with an operator of demand mode that is a part of the test.
//
// A query without a value needs a reason in the test. That those about the operator name metrics and labels
// that it has, a test of its chart says.
package dashboards
