package awsfake

// member is a target of a target group.
type member struct {
	machine string
	port    int
}
