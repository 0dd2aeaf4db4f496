import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;

/**
  * The JDK's side of the benchmark: the same workloads as in the directory workloads, line by line where possible.
  *
  * Reads one case per line, runs it, and answers with one line: "ok" and the figures, "none" if the kind of pool does
  * not support the case, or "wrong" and the reason. Before its first measurement a case is repeated as warm-up: the
  * first case of all until everything is compiled, later ones for a quarter of that time.
  * A process runs the cases of one kind and one workload, so that the JIT compiler optimises for exactly these.
 */
final class Versus {
    record Case(String kind, String key, String variant, int workers, int producers, long spins, long size) {}

    @SuppressWarnings("serial")
    static final class NotOffered extends RuntimeException {}

    @SuppressWarnings("serial")
    static final class Wrong extends RuntimeException {
        Wrong(String what) {
            super(what);
        }
    }

    public static void main(String[] args) throws Exception {
        long warmUp = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(args[0]));
        Set<Case> warm = new HashSet<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(answer(parse(line), warm, warmUp));
        }
    }

    static Case parse(String line) {
        String[] f = line.split("\t");
        long spins = Long.parseLong(f[5]) * STEPS_PER_MICROSECOND;
        return new Case(f[0], f[1], f[2], Integer.parseInt(f[3]), Integer.parseInt(f[4]), spins,
            Long.parseLong(f[6]));
    }

    static String answer(Case c, Set<Case> warm, long warmUp) throws Exception {
        try {
            if (warm.add(c) && !c.key.equals("idle") && !c.key.equals("memory")) {
                long enough = warm.size() == 1 ? warmUp : warmUp / 4;
                long begin = System.nanoTime();
                for (int run = 0; run < 2 || System.nanoTime() - begin < enough; run++) {
                    run(c);
                }
                System.gc();
            }
            StringBuilder text = new StringBuilder("ok");
            for (double figure : run(c)) {
                text.append(' ').append(figure);
            }
            return text.toString();
        } catch (NotOffered e) {
            return "none";
        } catch (Wrong e) {
            return "wrong " + e.getMessage();
        }
    }

    static double[] run(Case c) throws Exception {
        return switch (c.key) {
            case "one-producer", "four-producers" -> fire(c, pool(c, Shape.FIXED));
            case "bounded" -> fire(c, pool(c, c.variant.equals("block") ? Shape.BLOCKING : Shape.CALLER_RUNS));
            case "round-trip" -> roundTrip(c);
            case "burst" -> burst(c);
            case "wake-up" -> wakeUp(c);
            case "elastic" -> elastic(c);
            case "nested" -> nested(c);
            case "memory" -> memory(c);
            case "rejection" -> rejection(c);
            case "idle" -> idle(c);
            case "queues" -> queues(c);
            case "timers" -> timers(c);
            case "lateness" -> lateness(c);
            case "bounded-elastic" -> boundedElastic(c);
            case "growth-queued" -> backlog(c);
            default -> throw new NotOffered();
        };
    }

    // The pools.

    enum Shape { FIXED, BLOCKING, CALLER_RUNS, REJECTING, DISCARDING, ELASTIC }

    static final int CAPACITY = 1024;
    static final AtomicLong REFUSED = new AtomicLong();

    static ExecutorService pool(Case c, Shape shape) {
        boolean bounded = shape != Shape.FIXED && shape != Shape.ELASTIC;
        switch (c.kind) {
            case "linked":
                if (shape == Shape.ELASTIC) {
                    throw new NotOffered();
                }
                return fixed(c, bounded ? new LinkedBlockingQueue<>(CAPACITY) : new LinkedBlockingQueue<>(), shape);
            case "transfer":
                if (shape != Shape.FIXED) {
                    throw new NotOffered();
                }
                return fixed(c, new LinkedTransferQueue<>(), shape);
            case "array":
                if (!bounded) {
                    throw new NotOffered();
                }
                return fixed(c, new ArrayBlockingQueue<>(CAPACITY), shape);
            case "synchronous":
                if (shape != Shape.ELASTIC) {
                    throw new NotOffered();
                }
                return Executors.newCachedThreadPool(Hand::new);
            case "forkjoin":
                if (shape != Shape.FIXED) {
                    throw new NotOffered();
                }
                return new ForkJoinPool(c.workers, ForkHand::new, null, false);
            default:
                throw new NotOffered();
        }
    }

    static ExecutorService fixed(Case c, BlockingQueue<Runnable> queue, Shape shape) {
        RejectedExecutionHandler handler = switch (shape) {
            case BLOCKING -> (task, pool) -> {
                try {
                    pool.getQueue().put(task);
                } catch (InterruptedException e) {
                    throw new RejectedExecutionException(e);
                }
            };
            case CALLER_RUNS -> new ThreadPoolExecutor.CallerRunsPolicy();
            // Only one thread is rejected, so a plain write suffices.
            case DISCARDING -> (task, pool) -> REFUSED.setPlain(REFUSED.getPlain() + 1);
            default -> new ThreadPoolExecutor.AbortPolicy();
        };
        return new ThreadPoolExecutor(c.workers, c.workers, 0, TimeUnit.SECONDS, queue, Hand::new, handler);
    }

    /** Starts all threads. */
    static ExecutorService started(ExecutorService pool, int workers) throws Exception {
        long before = total();
        for (int i = 0; i < 4 * workers; i++) {
            pool.execute(task(20_000, i));
        }
        await(before, 4L * workers);
        return pool;
    }

    static void close(ExecutorService pool) throws Exception {
        pool.shutdown();
        if (!pool.awaitTermination(60, TimeUnit.SECONDS)) {
            throw new Wrong("the pool did not end");
        }
    }

    // Counting: one counter per thread of a pool, on its own cache lines, and plain writes.

    /** More than the number of threads that live at a time, and one for threads without a slot. */
    static final int SLOTS = 1024;
    static final int STRIDE = 16;
    static final AtomicLongArray TALLY = new AtomicLongArray((SLOTS + 1) * STRIDE);
    static final AtomicInteger USED = new AtomicInteger(1);
    /** Slots of threads that have ended. Their counts stay. */
    static final Queue<Integer> FREE = new ConcurrentLinkedQueue<>();

    static int takePlace() {
        Integer free = FREE.poll();
        return free != null ? free : (1 + USED.getAndIncrement()) * STRIDE;
    }

    /** A thread with a slot in the tally. No other thread writes to the slot while the thread lives. */
    interface Counting {
        int place();
    }

    static final class Hand extends Thread implements Counting {
        private int place;

        Hand(Runnable body) {
            super(body);
        }

        @Override
        public void run() {
            place = takePlace();
            super.run();
            FREE.add(place);
        }

        @Override
        public int place() {
            return place;
        }
    }

    static final class ForkHand extends ForkJoinWorkerThread implements Counting {
        private int place;

        ForkHand(ForkJoinPool pool) {
            super(pool);
        }

        @Override
        public void run() {
            place = takePlace();
            super.run();
            FREE.add(place);
        }

        @Override
        public int place() {
            return place;
        }
    }

    static void count() {
        if (Thread.currentThread() instanceof Counting mine) {
            int place = mine.place();
            TALLY.setRelease(place, TALLY.getPlain(place) + 1);
        } else {
            // Callers that run tasks themselves.
            TALLY.getAndAdd(STRIDE, 1);
        }
    }

    static long total() {
        long sum = 0;
        for (int slot = 1; slot <= USED.get(); slot++) {
            sum += TALLY.get(slot * STRIDE);
        }
        return sum;
    }

    static void await(long before, long tasks) {
        long begin = System.nanoTime();
        while (total() - before < tasks) {
            long waited = System.nanoTime() - begin;
            if (waited > TimeUnit.SECONDS.toNanos(20)) {
                check(before, tasks);
            }
            if (waited < 100_000) {
                Thread.yield();
            } else {
                LockSupport.parkNanos(20_000);
            }
        }
    }

    static void check(long before, long tasks) {
        long ran = total() - before;
        if (ran != tasks) {
            throw new Wrong(ran + " tasks ran of " + tasks);
        }
    }

    // The bodies.

    static volatile long sink;

    static void spin(long steps) {
        long value = steps;
        for (long i = 0; i < steps; i++) {
            value = value * 6364136223846793005L + 1442695040888963407L;
        }
        if (value == 42) {
            sink = value;
        }
    }

    /** The fastest of many tries, once it is compiled. The JIT compiles the loop differently from Rust. */
    static final long STEPS_PER_MICROSECOND = calibrate();

    static long calibrate() {
        long steps = 20_000;
        long fastest = Long.MAX_VALUE;
        for (int i = 0; i < 2_000; i++) {
            long begin = System.nanoTime();
            spin(steps);
            fastest = Math.min(fastest, System.nanoTime() - begin);
        }
        return Math.max(1, steps * 1000 / Math.max(1, fastest));
    }

    static Runnable task(long spins, long number) {
        return () -> {
            if (number == Long.MIN_VALUE) {
                sink = number;
            }
            if (spins > 0) {
                spin(spins);
            }
            count();
        };
    }

    // The workloads.

    static double[] fire(Case c, ExecutorService pool) throws Exception {
        started(pool, c.workers);
        // A small number of tasks is repeated, until the time is long enough to be measured.
        long times = Math.max(1, 20_000 / c.size);
        long before = total();
        long elapsed = 0;
        for (long time = 1; time <= times; time++) {
            long begin = c.producers == 1 ? produce(c, pool, 0) : produceTogether(c, pool);
            await(before, time * c.size);
            elapsed += System.nanoTime() - begin;
        }
        close(pool);
        check(before, times * c.size);
        return new double[] {(double) elapsed / (times * c.size)};
    }

    static long produce(Case c, ExecutorService pool, int producer) {
        long begin = System.nanoTime();
        for (long number = producer; number < c.size; number += c.producers) {
            pool.execute(task(c.spins, number));
        }
        return begin;
    }

    static long produceTogether(Case c, ExecutorService pool) throws Exception {
        CyclicBarrier start = new CyclicBarrier(c.producers);
        // The first producer to start counts: this thread may be woken late.
        AtomicLong begin = new AtomicLong(Long.MAX_VALUE);
        List<Thread> threads = new ArrayList<>();
        for (int producer = 0; producer < c.producers; producer++) {
            int mine = producer;
            threads.add(actor(start, () -> begin.accumulateAndGet(produce(c, pool, mine), Math::min)));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return begin.get();
    }

    static double[] roundTrip(Case c) throws Exception {
        ExecutorService pool = started(pool(c, Shape.FIXED), c.workers);
        long before = total();
        long[] trips = new long[(int) c.size];
        for (int i = 0; i < trips.length; i++) {
            long begin = System.nanoTime();
            pool.submit(task(c.spins, i)).get();
            trips[i] = System.nanoTime() - begin;
        }
        close(pool);
        check(before, c.size);
        return percentiles(trips);
    }

    static double[] percentiles(long[] nanos) {
        Arrays.sort(nanos);
        int p99 = Math.min((int) (nanos.length * 0.99), nanos.length - 1);
        return new double[] {nanos[nanos.length / 2] / 1000.0, nanos[p99] / 1000.0};
    }

    static double[] burst(Case c) throws Exception {
        ExecutorService pool = started(pool(c, Shape.FIXED), c.workers);
        Future<?>[] handles = new Future<?>[1000];
        long before = total();
        long begin = System.nanoTime();
        for (long burst = 0; burst < c.size / handles.length; burst++) {
            for (int i = 0; i < handles.length; i++) {
                handles[i] = pool.submit(task(c.spins, i));
            }
            for (Future<?> handle : handles) {
                handle.get();
            }
        }
        long elapsed = System.nanoTime() - begin;
        close(pool);
        check(before, c.size);
        return new double[] {(double) elapsed / c.size};
    }

    static double[] wakeUp(Case c) throws Exception {
        ExecutorService pool = started(pool(c, Shape.FIXED), c.workers);
        long[] waits = new long[(int) c.size];
        for (int i = 0; i < waits.length; i++) {
            BlockingQueue<Long> begun = new ArrayBlockingQueue<>(1);
            Thread.sleep(1);
            long begin = System.nanoTime();
            pool.execute(() -> begun.add(System.nanoTime()));
            waits[i] = begun.take() - begin;
        }
        close(pool);
        return percentiles(waits);
    }

    static final int WAVE = 64;

    static double[] elastic(Case c) throws Exception {
        ExecutorService pool = pool(c, Shape.ELASTIC);
        long before = total();
        for (int i = 0; i < 3; i++) {
            wave(pool);
        }
        long begin = System.nanoTime();
        for (long i = 0; i < c.size; i++) {
            wave(pool);
        }
        long elapsed = System.nanoTime() - begin;
        close(pool);
        check(before, (3 + c.size) * WAVE);
        return new double[] {elapsed / 1000.0 / c.size};
    }

    static void wave(ExecutorService pool) throws Exception {
        Future<?>[] handles = new Future<?>[WAVE];
        for (int i = 0; i < WAVE; i++) {
            handles[i] = pool.submit(() -> {
                LockSupport.parkNanos(1_000_000);
                count();
            });
        }
        for (Future<?> handle : handles) {
            handle.get();
        }
    }

    static double[] nested(Case c) throws Exception {
        ExecutorService pool = started(pool(c, Shape.FIXED), c.workers);
        long tasks = 2 * c.size - 1;
        long before = total();
        long begin = System.nanoTime();
        pool.execute(() -> grow(pool, Long.numberOfTrailingZeros(c.size), c.spins));
        await(before, tasks);
        long elapsed = System.nanoTime() - begin;
        close(pool);
        check(before, tasks);
        return new double[] {(double) elapsed / tasks};
    }

    static void grow(ExecutorService pool, int depth, long spins) {
        if (depth > 0) {
            pool.execute(() -> grow(pool, depth - 1, spins));
            pool.execute(() -> grow(pool, depth - 1, spins));
        } else if (spins > 0) {
            spin(spins);
        }
        count();
    }

    /** Gives every worker a task that waits for the gate. */
    static CountDownLatch hold(Case c, ExecutorService pool) {
        CountDownLatch gate = new CountDownLatch(1);
        long held = total();
        for (int i = 0; i < c.workers; i++) {
            pool.execute(() -> {
                count();
                try {
                    gate.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
        }
        await(held, c.workers);
        return gate;
    }

    static double[] memory(Case c) throws Exception {
        long empty = heap();
        ExecutorService pool = started(pool(c, Shape.FIXED), c.workers);
        CountDownLatch gate = hold(c, pool);
        long before = total();
        for (long i = 0; i < c.size; i++) {
            pool.execute(task(0, i));
        }
        long full = heap();
        gate.countDown();
        await(before, c.size);
        long drained = heap();
        close(pool);
        check(before, c.size);
        return new double[] {Math.max(0.0, full - empty) / c.size, Math.max(0.0, drained - empty) / c.size};
    }

    static long heap() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    static double[] rejection(Case c) throws Exception {
        boolean returned = c.variant.equals("returned");
        ExecutorService pool = pool(c, returned ? Shape.REJECTING : Shape.DISCARDING);
        CountDownLatch gate = hold(c, pool);
        long before = total();
        for (int i = 0; i < CAPACITY; i++) {
            pool.execute(task(0, i));
        }
        long refusedBefore = REFUSED.getPlain();
        long begin = System.nanoTime();
        for (long i = 0; i < c.size; i++) {
            if (!returned) {
                pool.execute(task(0, i));
            } else {
                try {
                    pool.execute(task(0, i));
                } catch (RejectedExecutionException e) {
                    REFUSED.setPlain(REFUSED.getPlain() + 1);
                }
            }
        }
        long elapsed = System.nanoTime() - begin;
        long refused = REFUSED.getPlain() - refusedBefore;
        gate.countDown();
        close(pool);
        check(before, CAPACITY);
        if (refused != c.size) {
            throw new Wrong(refused + " tasks refused of " + c.size);
        }
        return new double[] {(double) elapsed / c.size};
    }

    static double[] idle(Case c) throws Exception {
        Set<Long> others = ids();
        ExecutorService pool = started(pool(c, Shape.FIXED), c.workers);
        Set<Long> threads = ids();
        threads.removeAll(others);
        long begin = cpuTime(threads);
        Thread.sleep(c.size);
        long used = cpuTime(threads) - begin;
        close(pool);
        return new double[] {used / 1000.0};
    }

    static Set<Long> ids() {
        Set<Long> ids = new HashSet<>();
        for (long id : ManagementFactory.getThreadMXBean().getAllThreadIds()) {
            ids.add(id);
        }
        return ids;
    }

    static long cpuTime(Set<Long> threads) {
        return threads.stream().mapToLong(ManagementFactory.getThreadMXBean()::getThreadCpuTime).sum();
    }

    static double[] queues(Case c) throws Exception {
        if (c.kind.equals("transfer-queue")) {
            LinkedTransferQueue<Long> queue = new LinkedTransferQueue<>();
            return switch (c.variant) {
                case "bounded" -> throw new NotOffered();
                case "unbounded" -> queue(c, queue::put, queue::take);
                default -> queue(c, queue::transfer, queue::take);
            };
        }
        BlockingQueue<Long> queue = switch (c.variant) {
            case "bounded" -> new ArrayBlockingQueue<>(CAPACITY);
            case "unbounded" -> new LinkedBlockingQueue<>();
            default -> new SynchronousQueue<>();
        };
        return queue(c, queue::put, queue::take);
    }

    interface Put {
        void put(Long item) throws InterruptedException;
    }

    interface Take {
        Long take() throws InterruptedException;
    }

    static double[] queue(Case c, Put put, Take take) throws Exception {
        CyclicBarrier start = new CyclicBarrier(2 * c.producers);
        long each = c.size / c.producers;
        AtomicLong sum = new AtomicLong();
        // Each thread records its start and end: the thread that starts and joins them might be
        // late.
        AtomicLong begin = new AtomicLong(Long.MAX_VALUE);
        AtomicLong end = new AtomicLong(Long.MIN_VALUE);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < c.producers; i++) {
            threads.add(actor(start, () -> {
                begin.accumulateAndGet(System.nanoTime(), Math::min);
                putAll(put, each);
                end.accumulateAndGet(System.nanoTime(), Math::max);
            }));
            threads.add(actor(start, () -> {
                begin.accumulateAndGet(System.nanoTime(), Math::min);
                sum.addAndGet(takeAll(take, each));
                end.accumulateAndGet(System.nanoTime(), Math::max);
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (sum.get() != c.producers * (each * (each + 1) / 2)) {
            throw new Wrong("items were lost or came twice");
        }
        return new double[] {(double) (end.get() - begin.get()) / c.size};
    }

    static void putAll(Put put, long items) throws InterruptedException {
        for (long n = 1; n <= items; n++) {
            put.put(n);
        }
    }

    static long takeAll(Take take, long items) throws InterruptedException {
        long sum = 0;
        for (long n = 0; n < items; n++) {
            sum += take.take();
        }
        return sum;
    }

    interface Act {
        void act() throws Exception;
    }

    static Thread actor(CyclicBarrier start, Act body) {
        Thread thread = new Thread(() -> {
            try {
                start.await();
                body.act();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        thread.start();
        return thread;
    }

    // Bounded-elastic: Reactor's scheduler has one single-threaded pool per thread, and a lane
    // stays with its pool.

    static double[] boundedElastic(Case c) throws Exception {
        ExecutorService[] pools;
        if (c.kind.equals("pinned")) {
            pools = new ExecutorService[c.workers];
            Arrays.setAll(pools, i -> new ScheduledThreadPoolExecutor(1, Hand::new));
        } else if (c.variant.equals("waves")) {
            pools = new ExecutorService[] {pool(c, Shape.ELASTIC)};
        } else {
            throw new NotOffered();
        }
        long elapsed = 0;
        for (long i = -1; i < c.size; i++) {
            long once = c.variant.equals("waves") ? sleepers(pools) : lanes(c, pools);
            elapsed += i < 0 ? 0 : once;
        }
        for (ExecutorService pool : pools) {
            close(pool);
        }
        return new double[] {elapsed / 1000.0 / c.size};
    }

    static long sleepers(ExecutorService[] pools) {
        long before = total();
        long begin = System.nanoTime();
        for (int i = 0; i < WAVE; i++) {
            pools[i % pools.length].execute(() -> {
                LockSupport.parkNanos(1_000_000);
                count();
            });
        }
        await(before, WAVE);
        return System.nanoTime() - begin;
    }

    static final int OTHERS = 15;
    static final int TASKS = 50;

    static long lanes(Case c, ExecutorService[] pools) {
        long before = total();
        long begin = System.nanoTime();
        // Not counted, so that the end does not wait for it.
        pools[0].execute(() -> LockSupport.parkNanos(20_000_000));
        for (int number = 0; number < TASKS; number++) {
            for (int lane = 1; lane <= OTHERS; lane++) {
                pools[lane % pools.length].execute(task(c.spins, number));
            }
        }
        await(before, OTHERS * TASKS);
        long elapsed = System.nanoTime() - begin;
        // The next repetition begins with all threads free.
        long rest = total();
        pools[0].execute(Versus::count);
        await(rest, 1);
        return elapsed;
    }

    /** The cost of `execute` when many tasks are queued already. */
    static double[] backlog(Case c) throws Exception {
        int more = 10_000;
        ExecutorService pool = started(pool(c, Shape.FIXED), c.workers);
        CountDownLatch gate = hold(c, pool);
        long before = total();
        for (long i = 0; i < c.size; i++) {
            pool.execute(task(0, i));
        }
        long begin = System.nanoTime();
        for (long i = 0; i < more; i++) {
            pool.execute(task(0, i));
        }
        long elapsed = System.nanoTime() - begin;
        gate.countDown();
        await(before, c.size + more);
        close(pool);
        check(before, c.size + more);
        return new double[] {(double) elapsed / more};
    }

    static ScheduledThreadPoolExecutor scheduled(Case c) {
        if (!c.kind.equals("scheduled")) {
            throw new NotOffered();
        }
        ScheduledThreadPoolExecutor pool = new ScheduledThreadPoolExecutor(c.workers, Hand::new);
        pool.setRemoveOnCancelPolicy(true);
        return pool;
    }

    /** The minimum number of timers per measurement. */
    static final long ENOUGH = 400_000;

    static double[] timers(Case c) throws Exception {
        ScheduledThreadPoolExecutor pool = scheduled(c);
        SplittableRandom random = new SplittableRandom(1);
        long before = total();
        // The threads start with the first timers.
        inAndOut(pool, Math.max(2 * c.workers, Math.min(c.size, ENOUGH)), random);
        // A small number of timers is repeated, until the time is long enough to be measured.
        long times = Math.max(1, ENOUGH / c.size);
        double[] nanos = new double[2];
        for (long time = 0; time < times; time++) {
            long[] once = inAndOut(pool, c.size, random);
            nanos[0] += once[0];
            nanos[1] += once[1];
        }
        close(pool);
        check(before, 0);
        return new double[] {nanos[0] / (times * c.size), nanos[1] / (times * c.size)};
    }

    /** The times to insert and to cancel `size` timers. */
    static long[] inAndOut(ScheduledThreadPoolExecutor pool, long size, SplittableRandom random) {
        long[] delays = random.longs(size, 60_000_000_000L, 120_000_000_000L).toArray();
        Future<?>[] keys = new Future<?>[delays.length];
        long begin = System.nanoTime();
        for (int i = 0; i < delays.length; i++) {
            keys[i] = pool.schedule(Versus::count, delays[i], TimeUnit.NANOSECONDS);
        }
        long inserted = System.nanoTime() - begin;
        for (int i = keys.length - 1; i > 0; i--) {
            int other = random.nextInt(i + 1);
            Future<?> key = keys[i];
            keys[i] = keys[other];
            keys[other] = key;
        }
        begin = System.nanoTime();
        for (Future<?> key : keys) {
            key.cancel(false);
        }
        return new long[] {inserted, System.nanoTime() - begin};
    }

    static double[] lateness(Case c) throws Exception {
        Set<Long> others = ids();
        ScheduledThreadPoolExecutor pool = scheduled(c);
        long[] late = new long[(int) c.size];
        long first = System.nanoTime() + 250_000_000 + 2_000 * c.size;
        long before = total();
        for (int i = 0; i < late.length; i++) {
            int mine = i;
            long due = first + 5_000L * i;
            pool.schedule(() -> {
                late[mine] = Math.max(0, System.nanoTime() - due);
                count();
            }, due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }
        boolean inTime = System.nanoTime() < first;
        Set<Long> threads = ids();
        threads.removeAll(others);
        long begin = cpuTime(threads);
        // Polls for the end only when it is near, so that it does not disturb the measurement.
        TimeUnit.NANOSECONDS.sleep(first + 5_000L * c.size - System.nanoTime());
        await(before, c.size);
        double used = cpuTime(threads) - begin;
        close(pool);
        check(before, c.size);
        if (!inTime) {
            throw new Wrong("the first was due before the last was in");
        }
        double[] percentiles = percentiles(late);
        return new double[] {percentiles[0], percentiles[1], used / 1000 / c.size};
    }
}
