// Package panels evaluates what dashboards and alerting rules ask, as Prometheus does: by its engine,
// over what it would have collected from programs that run.
//
// [Samples] are scrapes with the times that a test gives them, so that nobody waits for an interval.
// A [Panel] is one of a dashboard of Grafana or a rule of Prometheus. A rule, and a panel that shows
// only what is out of the ordinary, selects nothing where all is well; what it compares must be there
// all the same, which [Operands] cuts out of it.
package panels
