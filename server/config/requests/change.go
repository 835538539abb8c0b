package requests

import "nstance.dev/server/config/document"

// GroupChange is what a caller wants to be different about a group. A zero
// field stays as it is.
type GroupChange struct {
	Template      string
	Size          *int
	InstanceType  string
	InstanceTypes []string // beats InstanceType
	SubnetPool    string
	Vars          map[string]string // not nil: replaces all that the API had set
	Args          map[string]any    // not nil: replaces all that the API had set
	LoadBalancers []string          // not nil: replaces all that the API had set
	Mode          string            // document.ModeFixed or ModeDemand
	Demand        *document.Demand  // replaces the whole block that the API had set
	Requirements  *document.InstanceRequirements
	Node          *document.Node // replaces the whole block that the API had set
	Clear         []string       // fields that the API had set and is to have set no more: ClearableFields
	Manager       string         // who asks; empty asks for nobody
	Takeover      bool           // let Manager take the group from another
}
