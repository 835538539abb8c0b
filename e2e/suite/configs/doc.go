// Package configs makes random configurations, and looks at whether what validates can
// lead (S26).
//
// Half of them are fresh: documents with one to a few of everything, whose values are
// mostly within their limits. The other half are mutations of valid ones: a member is
// taken out, doubled, renamed, replaced by a value of another kind, or a number or a
// duration moves. A seed gives the same documents in every run.
package configs
