! The heat equation on a square of SIZE x SIZE cells.
!
!     mpifort heat.f90 -o heat && mpiexec -n 4 ./heat SIZE STEPS [FILE]
!
! Each rank has a block of columns, and a halo column on both sides. The left
! edge is hot. The final field goes to FILE (heat.out): SIZE x SIZE doubles.
program heat
  use mpi_f08
  use ckpt
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  implicit none

  integer :: rank, ranks, n, columns, first_column, steps, step
  ! Column 0 and column columns + 1 are the halo; rows 0 and n + 1 are the cold edges.
  real(real64), allocatable, target :: u(:,:), v(:,:)
  real(real64) :: change
  character(len=256) :: path

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call arguments()
  first_column = int(int(n, int64) * rank / ranks)
  columns = int(int(n, int64) * (rank + 1) / ranks) - first_column

  allocate (u(0:n+1, 0:columns+1), v(0:n+1, 0:columns+1))
  call fill()

  call ckpt_init(rank, ranks)
  call ckpt_protect_global('u', u, whole=[n, n], first=[1, first_column + 1], halo=[1, 1])
  do step = int(ckpt_restore()) + 1, steps
    call exchange()
    call relax()
    if (mod(step, 100) == 0) call report()
    if (ckpt_boundary(step) == CKPT_STOP) exit
  end do

  if (step > steps) call write_field()
  call ckpt_finalize() ! not before the result is safe: nothing restarts after it
  call MPI_Finalize()

contains

  subroutine arguments()
    character(len=32) :: text
    if (command_argument_count() < 2) then
      if (rank == 0) write (error_unit, '(a)') 'usage: heat SIZE STEPS [FILE]'
      call MPI_Finalize()
      stop 2
    end if
    call get_command_argument(1, text)
    read (text, *) n
    call get_command_argument(2, text)
    read (text, *) steps
    path = 'heat.out'
    if (command_argument_count() > 2) call get_command_argument(3, path)
  end subroutine

  subroutine fill()
    integer :: i, j
    u = 0
    do j = 1, columns
      do i = 1, n
        u(i, j) = real(mod((first_column + j) * 31_int64 + i * 17_int64, 101_int64), real64) / 101
      end do
    end do
    if (rank == 0) u(1:n, 0) = 1
  end subroutine

  subroutine exchange()
    integer :: left, right
    left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    call MPI_Sendrecv(u(:, 1), n + 2, MPI_REAL8, left, 0, &
                      u(:, columns + 1), n + 2, MPI_REAL8, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(u(:, columns), n + 2, MPI_REAL8, right, 1, &
                      u(:, 0), n + 2, MPI_REAL8, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine

  ! One step of Jacobi's method. The largest change of a cell goes to change.
  subroutine relax()
    integer :: i, j
    change = 0
    do j = 1, columns
      do i = 1, n
        v(i, j) = 0.25_real64 * (u(i, j - 1) + u(i, j + 1) + u(i - 1, j) + u(i + 1, j))
        change = max(change, abs(v(i, j) - u(i, j)))
      end do
    end do
    u(1:n, 1:columns) = v(1:n, 1:columns)
  end subroutine

  subroutine report()
    real(real64) :: largest
    call MPI_Allreduce(change, largest, 1, MPI_REAL8, MPI_MAX, MPI_COMM_WORLD)
    if (rank == 0) print '(a,i0,a,es12.6)', 'step ', step, ': largest change ', largest
    if (rank == 0) flush (6)
  end subroutine

  ! Rank 0 writes its columns, then those of the others in order.
  subroutine write_field()
    integer :: file, from, j
    if (rank > 0) then
      do j = 1, columns
        call MPI_Send(u(1:n, j), n, MPI_REAL8, 0, 2, MPI_COMM_WORLD)
      end do
      return
    end if
    open (newunit=file, file=path, access='stream', form='unformatted', status='replace')
    write (file) u(1:n, 1:columns)
    do from = 1, ranks - 1
      do j = 1, int(int(n, int64) * (from + 1) / ranks - int(n, int64) * from / ranks)
        call MPI_Recv(v(1:n, 1), n, MPI_REAL8, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        write (file) v(1:n, 1)
      end do
    end do
    close (file)
  end subroutine

end program
