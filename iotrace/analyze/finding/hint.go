package finding

import (
	"path"
	"strings"
)

// Hints for programs that are not ours, each with the page that documents it.
var (
	cbWrite = Hint{"Collective buffering: MPI_File_write_all, with the ROMIO hint romio_cb_write=enable.",
		"ROMIO User's Guide, section Hints; Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	cbRead = Hint{"Collective buffering: MPI_File_read_all, with the ROMIO hint romio_cb_read=enable.",
		"ROMIO User's Guide, section Hints; Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	cbNodes = Hint{"ROMIO hints: cb_nodes, the number of aggregators, one per node to begin with; cb_buffer_size, 16 MiB or more.",
		"MPI standard 4.0, section 14.2.8 (reserved file hints); ROMIO User's Guide"}
	ompio = Hint{"OMPIO: --mca io_ompio_num_aggregators N, --mca io_ompio_bytes_per_agg BYTES, and another component: --mca fcoll two_phase, dynamic_gen2 or vulcan.",
		"Open MPI documentation, page OMPIO; ompi_info --param io ompio"}
	sieveWrite = Hint{"ROMIO hint romio_ds_write=disable, if single writes read a block first to change a part of it (data sieving).",
		"ROMIO User's Guide, section Hints"}
	mpiio = Hint{"Write and read shared files through MPI-IO, with a file view for each rank and collective calls.",
		"MPI standard 4.0, sections 14.3 (file views) and 14.4 (collective data access)"}
	mpiStripes = Hint{"MPI-IO: the hints striping_factor and striping_unit, when the file is made.",
		"MPI standard 4.0, section 14.2.8 (reserved file hints)"}
	nonblocking = Hint{"MPI-IO: nonblocking calls, MPI_File_iwrite_at_all and MPI_File_iread_at_all, with computation before MPI_Wait.",
		"MPI standard 4.0, section 14.4"}
	broadcast = Hint{"Let one rank read what all need, and send it to the others with MPI_Bcast.",
		"MPI standard 4.0, section 6.4 (broadcast)"}
	stripeMore = Hint{"lfs setstripe -c COUNT on the directory, before the file is made: 4 stripes, or -c -1 for all OSTs.",
		"lfs-setstripe(1); Lustre Operations Manual, chapter Managing File Layout (Striping) and Free Space"}
	stripeSize = Hint{"lfs setstripe -S SIZE on the directory: a stripe size that divides the distance between the parts of the ranks.",
		"lfs-setstripe(1); Lustre Operations Manual, chapter Managing File Layout (Striping) and Free Space"}
	otherTarget = Hint{"lfs getstripe FILE names the OSTs of a file, and lfs df tells whether one is full. lfs setstripe -o LIST, or -p POOL, on the directory, before the files are made, leaves out a slow one.",
		"lfs-setstripe(1), options -o and -p; lfs-getstripe(1); lfs-df(1)"}
	otherNode = Hint{"Run without the node, with the option exclude of sbatch and srun, and tell the administrators.",
		"sbatch(1), option exclude"}
	compareRuns = Hint{"Record a second run: a slow rank on the same node again is a slow node; else the storage, or other jobs on it, was slow.",
		"Lockwood, Snyder, Wang, Byna, Carns, Wright, A Year in the Life of a Parallel File System, SC 2018"}
	hdf5Collective = Hint{"HDF5: open with H5Pset_fapl_mpio, transfer with H5Pset_dxpl_mpio(…, H5FD_MPIO_COLLECTIVE).",
		"HDF5 Reference Manual, H5Pset_fapl_mpio and H5Pset_dxpl_mpio"}
	hdf5Metadata = Hint{"HDF5: H5Pset_coll_metadata_write and H5Pset_all_coll_metadata_ops, so that ranks do metadata together.",
		"HDF5 Reference Manual, H5Pset_coll_metadata_write and H5Pset_all_coll_metadata_ops"}
	hdf5Align = Hint{"HDF5: H5Pset_alignment with the stripe size of the file system.",
		"HDF5 Reference Manual, H5Pset_alignment"}
	hdf5Chunks = Hint{"HDF5: a chunk cache that holds all chunks in use (H5Pset_chunk_cache), and chunks shaped like what is read.",
		"HDF5 Reference Manual, H5Pset_chunk_cache and H5Pset_chunk"}
	hdf5Blocks = Hint{"HDF5: larger hyperslabs per H5Dwrite and H5Dread; for contiguous datasets a larger sieve buffer than 64 KiB (H5Pset_sieve_buf_size), and metadata together in larger blocks than 2 KiB (H5Pset_meta_block_size).",
		"HDF5 Reference Manual, H5Sselect_hyperslab, H5Pset_sieve_buf_size and H5Pset_meta_block_size"}
	hdf5Fill = Hint{"HDF5: H5Pset_fill_time(…, H5D_FILL_TIME_NEVER), if the program writes all of a dataset: parallel HDF5 fills new datasets first.",
		"HDF5 Reference Manual, H5Pset_fill_time and H5Pset_alloc_time"}
	hdf5Async = Hint{"HDF5: the asynchronous I/O VOL connector.", "HDF5 documentation of the Async VOL connector (vol-async)"}
	netcdf    = Hint{"NetCDF: nc_var_par_access(…, NC_COLLECTIVE). PnetCDF: the calls that end in _all, and the hint nc_header_align_size.",
		"NetCDF-C documentation, Parallel I/O with NetCDF-4; PnetCDF documentation, I/O hints"}
	buffer = Hint{"Write and read through a buffer of 1 MiB or more: setvbuf for streams of the C library, a larger block in the options of a tool (dd bs=, tar -b, cp reads large blocks itself).",
		"setvbuf(3); dd(1); tar(1)"}
	ahead = Hint{"Read ahead: posix_fadvise(POSIX_FADV_SEQUENTIAL) or readahead, and larger reads.",
		"posix_fadvise(2); readahead(2)"}
	fadvise = Hint{"Sort requests by offset, or announce them: posix_fadvise(POSIX_FADV_WILLNEED) for what comes next, POSIX_FADV_RANDOM if nothing can be foretold.",
		"posix_fadvise(2)"}
	overHoles = Hint{"Data sieving: read 1 MiB or more with one call, over the holes, and copy the parts out of it. MPI-IO with a file view does so with the ROMIO hint romio_ds_read=enable.",
		"Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999; ROMIO User's Guide, section Hints"}
	queue = Hint{"Keep several requests under way: io_uring, libaio, or threads.", "io_uring(7); io_submit(2)"}
	align = Hint{"Begin at multiples of the page size, or of the stripe size of the file system; pad records and headers to it.",
		"open(2), section NOTES on O_DIRECT; Lustre Operations Manual, chapter on striping"}
	cache     = Hint{"Keep what is read again in memory, or map the file.", "mmap(2)"}
	wholeBlks = Hint{"Gather changes in memory and write whole blocks, so that nothing must be read first.", "Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	writeOnce = Hint{"Write each byte once: gather changes in memory, or append them and write the whole seldom.", "Rosenblum, Ousterhout, The Design and Implementation of a Log-Structured File System, 1992"}
	fdatasync = Hint{"Sync once after a batch of writes, and with fdatasync; a database commits many changes in one transaction.",
		"fsync(2); fdatasync(2)"}
	keepOpen = Hint{"Open a file once and keep its descriptor; pread and pwrite need no seek.", "open(2); pread(2)"}
	statOnce = Hint{"Ask once: keep the result, use fstat on the open file, or inotify to learn of changes.", "stat(2); inotify(7)"}
	pack     = Hint{"Keep many small files in one: an archive that is read in order, a database, or HDF5.", "tar(1); SQLite documentation, 35% Faster Than The Filesystem"}
	ownParts = Hint{"Locks of whole blocks: give each process blocks of the file that no other writes, or a file of its own.", "fcntl(2), section Advisory record locking; flock(2)"}
	ownCalls = Hint{"Ranks that move large contiguous parts of a file need no exchange: MPI_File_write_at and read_at, each rank its own stripes.",
		"MPI standard 4.0, section 14.4; Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	stream = Hint{"Large data: write(2) and read(2) with large blocks, MPI-IO, or setvbuf with a larger buffer.", "setvbuf(3); MPI standard 4.0, chapter 14"}
)

// isHDF5 and isNetCDF go by the name of the file.
func isHDF5(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".h5", ".hdf5", ".hdf", ".he5", ".nc4":
		return true
	}
	return false
}

func (f *File) inHDF5() bool { return isHDF5(f.Name) }

func (f *File) onLustre() bool { return f.Storage == Lustre }

func isNetCDF(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".nc", ".nc4", ".cdf", ".netcdf":
		return true
	}
	return false
}

// collective returns the hints for requests that ranks of an MPI program should do
// together.
func (s *search) collective(name string, d int) []Hint {
	var h []Hint
	switch {
	case !s.MPI:
		return alone(name, buffer)
	case isHDF5(name):
		h = append(h, hdf5Collective, hdf5Metadata)
	case isNetCDF(name):
		h = append(h, netcdf)
	default:
		h = append(h, mpiio)
	}
	return append(h, s.aggregation(d)...)
}

// alone returns the hints for requests of single processes: the settings of the library of
// a file, or else others.
func alone(name string, others ...Hint) []Hint {
	if isHDF5(name) {
		return []Hint{hdf5Blocks, hdf5Chunks}
	}
	return others
}

// aggregation returns the settings of the MPI library.
func (s *search) aggregation(d int) []Hint {
	var h []Hint
	if s.Library != "OMPIO" {
		h = append(h, [2]Hint{cbWrite, cbRead}[d], cbNodes)
	}
	if s.Library != "ROMIO" {
		h = append(h, ompio)
	}
	return h
}
