// Package report measures the machine and composes health reports.
//
// What was not measured is absent from a report and never zero: who counts idle machines
// must not take a broken sensor for a quiet one. Where the report has a field for the
// reason, the reason is in it; otherwise [Collector.Collect] returns it for the log.
//
// Everything is read from /proc and /sys, whose places tests replace.
package report
