! FTI's basic interface in Fortran on top of fti.h.
!
!     ckpt sdk c -o ckpt.h && ckpt sdk fti -o fti.h && ckpt sdk fti-fortran -o fti.f90
!     mpicc -c -x c -include mpi.h fti.h -o fti_c.o
!     mpifort fti.f90 heat.f90 fti_c.o -o heat
!
! Names and arguments come from FTI's public interface; the code is our own. fti.h lists the
! differences. Protected variables are pointers, or have the target attribute, and are contiguous.
module FTI
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  implicit none
  private

  integer, parameter, public :: FTI_DONE = 1, FTI_SCES = 0, FTI_NSCS = -1, FTI_NREC = -2
  public :: FTI_Init, FTI_Status, FTI_Protect, FTI_Recover, FTI_Snapshot, FTI_Checkpoint, FTI_Finalize

  ! FTI_Protect(id, variable, err) for scalars and arrays of any rank.
  interface FTI_Protect
    procedure protect_real32, protect_real64, protect_int32, protect_int64, protect_logical, protect_text
  end interface

  ! The numbers of types in fti.h.
  integer(c_int), parameter :: BYTE = 0, FLOAT = 8, DOUBLE = 9

  interface
    integer(c_int) function c_init(comm) bind(c, name='fti_fortran_init')
      import :: c_int
      integer, intent(inout) :: comm
    end function
    integer(c_int) function c_status() bind(c, name='FTI_Status')
      import :: c_int
    end function
    integer(c_int) function c_protect(id, address, count, type) bind(c, name='FTI_Protect')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: id, type
      type(c_ptr), value :: address
      integer(c_int64_t), value :: count
    end function
    integer(c_int) function c_recover() bind(c, name='FTI_Recover')
      import :: c_int
    end function
    integer(c_int) function c_snapshot() bind(c, name='FTI_Snapshot')
      import :: c_int
    end function
    integer(c_int) function c_checkpoint(id, level) bind(c, name='FTI_Checkpoint')
      import :: c_int
      integer(c_int), value :: id, level
    end function
    integer(c_int) function c_finalize() bind(c, name='FTI_Finalize')
      import :: c_int
    end function
  end interface

contains

  ! The communicator becomes the one that the program is to use.
  subroutine FTI_Init(config_file, global_comm, err)
    character(*), intent(in) :: config_file
    integer, intent(inout) :: global_comm
    integer, intent(out) :: err
    err = c_init(global_comm)
    if (len(config_file) < 0) err = FTI_NSCS ! the file is not read
  end subroutine

  subroutine FTI_Status(status)
    integer, intent(out) :: status
    status = c_status()
  end subroutine

  subroutine FTI_Recover(err)
    integer, intent(out) :: err
    err = c_recover()
  end subroutine

  subroutine FTI_Snapshot(err)
    integer, intent(out) :: err
    err = c_snapshot()
  end subroutine

  subroutine FTI_Checkpoint(id, level, err)
    integer, intent(in) :: id, level
    integer, intent(out) :: err
    err = c_checkpoint(int(id, c_int), int(level, c_int))
  end subroutine

  subroutine FTI_Finalize(err)
    integer, intent(out) :: err
    err = c_finalize()
  end subroutine

  subroutine protect(id, address, count, type, whole, err)
    integer, intent(in) :: id
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: count
    integer(c_int), intent(in) :: type
    logical, intent(in) :: whole
    integer, intent(out) :: err
    err = FTI_NSCS
    if (whole) err = c_protect(int(id, c_int), address, count, type)
  end subroutine

  subroutine protect_real32(id, variable, err)
    integer, intent(in) :: id
    real(real32), intent(in), target :: variable(..)
    integer, intent(out) :: err
    call protect(id, c_loc(variable), size(variable, kind=int64), FLOAT, is_contiguous(variable), err)
  end subroutine

  subroutine protect_real64(id, variable, err)
    integer, intent(in) :: id
    real(real64), intent(in), target :: variable(..)
    integer, intent(out) :: err
    call protect(id, c_loc(variable), size(variable, kind=int64), DOUBLE, is_contiguous(variable), err)
  end subroutine

  subroutine protect_int32(id, variable, err)
    integer, intent(in) :: id
    integer(int32), intent(in), target :: variable(..)
    integer, intent(out) :: err
    call protect(id, c_loc(variable), size(variable, kind=int64) * 4, BYTE, is_contiguous(variable), err)
  end subroutine

  subroutine protect_int64(id, variable, err)
    integer, intent(in) :: id
    integer(int64), intent(in), target :: variable(..)
    integer, intent(out) :: err
    call protect(id, c_loc(variable), size(variable, kind=int64) * 8, BYTE, is_contiguous(variable), err)
  end subroutine

  subroutine protect_logical(id, variable, err)
    integer, intent(in) :: id
    logical, intent(in), target :: variable(..)
    integer, intent(out) :: err
    call protect(id, c_loc(variable), size(variable, kind=int64) * (storage_size(variable) / 8), BYTE, is_contiguous(variable), err)
  end subroutine

  subroutine protect_text(id, variable, err)
    integer, intent(in) :: id
    character(*), intent(in), target :: variable
    integer, intent(out) :: err
    call protect(id, c_loc(variable), len(variable, kind=int64), BYTE, .true., err)
  end subroutine
end module
