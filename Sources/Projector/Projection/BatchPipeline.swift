/// Reads, folds and writes the batches of one stream side by side, each of the three in the order of positions.
///
/// While the database writes a batch, those after it are folded and read. What is made ahead counts only if nobody else
/// has folded meanwhile, which the writer checks under the lock of the stream's leader.
struct BatchPipeline {
    private enum Done: Sendable {
        case read(ProjectionOutcome<EventPage?>)
        case folded(ProjectionOutcome<FoldedBatch>)
        case written(ProjectionOutcome<Checkpoint?>)
    }

    private let reader: BatchReader
    private let writer: BatchWriter
    private let batchesMax: Int
    private let end: ContinuousClock.Instant?

    private var checkpoint: Checkpoint
    private var isReading = false
    private var isFolding = false
    private var isWriting = false
    /// The page after which to read; nil once there is nothing more.
    private var lastRead: EventPage?
    /// Read, and not yet being folded.
    private var page: EventPage?
    /// How many batches were begun to be folded.
    private var begun = 0
    /// In order; the first of them may be under way.
    private var unwritten: [FoldedBatch] = []
    /// A batch was not written, so none after it may be.
    private var isOver = false
    private var failure: ProjectionError?

    /// - Parameters:
    ///   - first: The page after the checkpoint.
    ///   - batchesMax: Most batches; at least one.
    ///   - end: No batch but the first is begun after it.
    init(
        reader: BatchReader, writer: BatchWriter, from first: EventPage, after checkpoint: Checkpoint, batchesMax: Int,
        end: ContinuousClock.Instant?
    ) {
        self.reader = reader
        self.writer = writer
        self.batchesMax = batchesMax
        self.end = end
        self.checkpoint = checkpoint
        page = first
        lastRead = first
    }

    /// Writes what can be folded. What was folded before a failure is written all the same.
    mutating func run() async -> ProjectionOutcome<StreamProjector.Progress> {
        await withTaskGroup(of: Done.self) { group in
            begin(&group)
            while let done = await group.next() {
                switch done {
                case .read(let result):
                    isReading = false
                    lastRead = note(result) ?? nil
                    page = lastRead
                case .folded(let result):
                    isFolding = false
                    if let batch = note(result), !isOver { unwritten.append(batch) }
                case .written(let result):
                    isWriting = false
                    if let written = note(result), let written {
                        checkpoint = written
                        unwritten.removeFirst()
                    } else {
                        isOver = true
                        unwritten = []
                    }
                }
                begin(&group)
            }
        }
        if let failure { return .failure(failure) }
        return .success(isOver ? .ledElsewhere : .folded(checkpoint.position))
    }

    private mutating func note<Value>(_ result: ProjectionOutcome<Value>) -> Value? {
        switch result {
        case .success(let value): return value
        case .failure(let failure):
            self.failure = self.failure ?? failure
            return nil
        }
    }

    /// Begins whatever can be.
    private mutating func begin(_ group: inout TaskGroup<Done>) {
        guard !Task.isCancelled else { return }
        if !isWriting, let batch = unwritten.first {
            isWriting = true
            group.addTask { [writer, checkpoint] in .written(await writer.write(batch, after: checkpoint)) }
        }
        guard failure == nil, !isOver, begun == 0 || goesOn else { return }
        if !isFolding, unwritten.count < Limits.batchesAheadMax, let page {
            self.page = nil
            isFolding = true
            begun += 1
            group.addTask { [reader, unwritten] in .folded(await reader.fold(page, after: unwritten)) }
        }
        if !isReading, page == nil, goesOn, let lastRead {
            isReading = true
            group.addTask { [reader] in .read(await reader.page(after: lastRead)) }
        }
    }

    private var goesOn: Bool { begun < batchesMax && end.map { $0 > .now } ?? true }
}
