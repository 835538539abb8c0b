// Package demand_test runs demand mode as a whole on this box: a real server that is killed now and then, real
// machines with agents and the program that makes them join, and in the cluster's place a scripted operator
// (package demandoperator).
//
// How many needs and machines there are, and how much an operator that has gone bad sends, are flags: a few in
// `make test`; 200, 300 and 500 MB in `make test-demand`.
package demand_test
