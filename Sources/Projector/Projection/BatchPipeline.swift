/// Reads, folds and writes the batches of one stream concurrently; each of the three steps runs in order of position.
///
/// While the database writes a batch, the next ones are read and folded. A batch prepared ahead is written only if no
/// other projector has advanced the stream since, which the writer checks under the lock of the stream's leader.
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
    /// The page after which to read; nil if there is nothing more to read.
    private var lastRead: EventPage?
    /// The page that was read and is not being folded yet.
    private var page: EventPage?
    /// The number of batches whose fold has started.
    private var begun = 0
    /// Folded batches in order; the first may be being written.
    private var unwritten: [FoldedBatch] = []
    /// A batch was not written, so later ones must not be.
    private var isOver = false
    private var failure: ProjectionError?

    /// - Parameters:
    ///   - first: The page after the checkpoint.
    ///   - batchesMax: Most batches; at least 1.
    ///   - end: Only the first batch may begin after this instant.
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

    /// Folds and writes the batches. Batches folded before a failure are still written.
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

    /// Starts every step that can start now.
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
