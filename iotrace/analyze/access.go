package analyze

// An Access tells how many processes use a file.
type Access string

// The modes of access. Mixed means a job with files of both kinds.
const (
	Independent Access = "independent" // by one process
	Shared      Access = "shared"      // by several
	MixedAccess Access = "mixed"
)
