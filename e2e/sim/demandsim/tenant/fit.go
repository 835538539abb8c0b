package tenant

// FitCheck says why the Pods of a Node would have no place elsewhere; empty is that they have one.
func FitCheck(o *Operator, node string) string {
	if p := o.Cluster.Elsewhere(node); p != nil {
		return "Pod " + p.Object.Name + " fits on no other Node"
	}
	return ""
}
